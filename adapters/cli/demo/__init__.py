"""`diarist demo`: many streaming chats at once, and the proof that nothing was lost."""
