"""What the cluster looks like now.

`wire` decodes what the apiserver sends, `pods` and `nodes` turn it into what scheduling needs, `inventory` concludes
which cards a node has, and `cluster` keeps it all in arrays over nodes and cards. Nothing here talks to the
apiserver or decides a placement.
"""
