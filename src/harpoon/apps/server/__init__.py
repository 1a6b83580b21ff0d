"""A model over HTTP, and Studio, its page for what-if questions. The extra "serve" brings what they need.

routes        `create_app` returns an ASGI application
schemas       request and response bodies         handlers      what each route does
uploads       tables in requests                  responses     formats, events
served_model  the model and its description       form_controls conditions as form controls
real_table    real rows beside the sampled ones   workers       threads, deadlines
middleware    access log, token, body size
errors, limits, access_log, openapi               run           the HTTP server
"""
