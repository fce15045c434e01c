"""Where the batches of a run come from: points on the host, or on the device.

Public names: `source.Source`, what the trainer asks of either; `source.BatchSettings`;
`counts.PointCounts`; `on_host.HostSource` and `on_device.DeviceSource`, with the static part of
each in `assembly`; `build.make_run_source` (for a run) and `build.make_source` (for matrices).
"""
