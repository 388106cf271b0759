"""The miniature world: small question-answering domains about invented people, towns and companies."""
