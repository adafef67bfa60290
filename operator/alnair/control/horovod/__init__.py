"""ElasticHorovodJobs: what each consists of, and how that is kept so.

`job` reads one; `children` says what it is to consist of, `drift` whether what stands there says so, `discovery` which
workers live; `plan` puts that together into steps and `status` into words: all of it pure. `books` hold what is there,
`rounds` say whose turn it is, and `reconciler` carries the steps out.
"""
