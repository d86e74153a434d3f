"""The API served over HTTP from the tables of a warehouse.

- `capability`: what it contributes to the core
- `settings`: what its operator may set
- `commands`: the commands of operators
- `app`: creates the application from routes, error answers and the pool; the status endpoint
- `server`: runs the service as a process
- `access`: decides which accounts a caller may read
- `pool`: the pool of connections to PostgreSQL
- `metrics`: metrics of requests, security events and reports
- `tables`: its tables
- `errors`: its errors, with their HTTP answers
- `sums`: sums of stored rows, kept for statistics
- `events`: security events, read back, and those of them that alerts report
- `security_events`: records logins, consents and operators' commands
- `http`: parameters, bodies, answers and middleware
- `openapi`: endpoints and their description
- `limits`: limits of requests at once and in a minute
- `pages`: pages for people
- `users`: users, groups and passwords
- `oauth`: the OAuth server
- `lists`: the list endpoints
- `statistics`: the statistics endpoint
- `costs`: the cost period endpoints
- `reports`: the report endpoints and their worker
- `csv_loads`: exchange rates and products, loaded by an operator
"""
