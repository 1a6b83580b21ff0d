"""A model over HTTP, and Studio, its page for what-if questions. The extra "serve" brings what they need.

app           routes; `create_app` returns an ASGI application
schemas       request and response bodies         handlers      what each route does
uploads       tables in requests                  responses     formats, events
served_model  the model and its description       controls      conditions as form controls
middleware    access log, token, body size        workers       threads, deadlines
errors, limits, access_log, openapi               run           the HTTP server
"""
