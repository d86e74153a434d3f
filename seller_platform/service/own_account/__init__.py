"""The pages by which users manage their own login.

- `routes`: the paths of the pages
- `overview`: the start page, which links the others
- `confirmation`: asks for the present password once more
- `password`: changes the password
- `reset`: sets a password by a link of the operator
- `sessions`: lists and ends sessions
- `passkeys`: lists, adds and removes passkeys
- `activity`: lists what was recorded
"""
