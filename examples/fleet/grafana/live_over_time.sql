-- A time series panel of Grafana: what a service's processes have live, and their resident memory, by version.
-- Query type: Time series. Variable of the dashboard: service. The database is called fleet. A point is for a minute
-- or more, so that each process that is pushed every 60 seconds has a window in it.
SELECT time, build, sum(live) AS live_bytes, sum(rss) AS rss_bytes FROM (
  SELECT time, any(of) AS build, argMax(window_live, ended) AS live, argMax(window_rss, ended) AS rss FROM (
    SELECT toDateTime(intDiv(intDiv(any(end_ns), 1000000000), greatest(60, $__interval_s)) * greatest(60, $__interval_s)) AS time,
           any(process) AS one, substring(any(version), 1, 12) AS of, any(end_ns) AS ended,
           argMin(live_bytes, push) AS window_live, argMin(rss_bytes, push) AS window_rss
    FROM fleet.windows
    WHERE service = '$service' AND toDateTime(intDiv(end_ns, 1000000000)) BETWEEN $__fromTime AND $__toTime
    GROUP BY window
  ) GROUP BY time, one
) GROUP BY time, build ORDER BY time, build
