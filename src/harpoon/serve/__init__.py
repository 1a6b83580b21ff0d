"""A model over HTTP, and Studio, a page to ask it what-if questions (the extra "serve")."""
