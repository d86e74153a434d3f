"""The pages by which users manage their own login.

- `routes`: the paths of the pages, and the first page, which links the others
- `password`: asks for the present password, and changes it
- `reset`: sets a password by a link of the operator
- `sessions`: lists and ends sessions
- `passkeys`: lists, adds and removes passkeys
- `activity`: lists what was recorded
"""
