"""A model over HTTP, and Studio, a page to ask it what-if questions. The extra "serve" brings what they need.

app         the addresses; `create_app` makes the application, for any server of ASGI
guards      who may come in, and how large a request may be
uploads     tables that come in            formats     answers that go out
answers     one function per question      replies     at once or as events, as long as somebody waits
controls    conditions as controls         columns     how rows spread over a column
work        threads that can be ended      running     the server itself
"""
