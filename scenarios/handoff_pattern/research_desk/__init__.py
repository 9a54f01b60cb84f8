"""Three agents on the OpenAI Agents SDK: one chats, one knows documents, one researches."""
