"""Object stores (`gs://`, `s3://`): copies of data and runs from them, and runs kept in them.

Public names: `address.Address`, `copies.local_copy`, `marks` of verbs' options, `objects.Objects`,
`objects.StoreError`, `uploads.Uploads`.
"""
