"""The API served over HTTP, from the tables of a warehouse: OAuth server, lists, costs, reports, pages.

`app` joins the parts and `server` runs them. Endpoints that list a dataset all come from `lists.route_for`;
what is true of one dataset only stands in `particulars`.
"""
