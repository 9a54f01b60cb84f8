# A project of its own, which tests here copy and run.
collect_ignore = ["suite"]
