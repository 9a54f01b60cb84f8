"""Updates: the actual values become the claims, as edits of scenario files.

``first_claims`` makes claims for turns without any; ``changing`` computes the changes of a failing
claim; ``proposals`` are the edits of one run, from its failing claims and their actual values;
``edits`` and ``replacing`` write an edit into a text; ``merging`` puts those of all runs into it;
``files`` shows the difference and writes.
"""
