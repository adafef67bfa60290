"""Ways to run Alnair other than the chart's Deployment: a static pod, and the image that all of them run."""
