-- A flame graph panel of Grafana: what a service's processes have live, by call path, each at the end of its last
-- window in the time of the dashboard. The panel wants the tree's nodes from the root on, each followed by its
-- children: level, value with and self without the children, label.
-- Query type: Table. Variable of the dashboard: service. The database is called fleet. For what was allocated, write
-- allocated_bytes for live_bytes, and leave out the condition that begins with "push IN (SELECT argMax".
SELECT level, value, self, label FROM (
  SELECT path, length(path) AS level, sum(bytes) AS value, sum(bytes * (level = depth)) AS self,
         if(level = 0, 'all', path[level]) AS label
  FROM (
    SELECT arrayJoin(arrayMap(n -> arraySlice(names, 1, n), range(length(names) + 1))) AS path, length(names) AS depth,
           bytes
    FROM (
      SELECT stack, sum(live_bytes) AS bytes FROM fleet.samples
      WHERE push IN (
        SELECT min(push) FROM fleet.windows
        WHERE service = '$service' AND toDateTime(intDiv(end_ns, 1000000000)) BETWEEN $__fromTime AND $__toTime
        GROUP BY window
      ) AND push IN (SELECT argMax(first, ended) FROM (
        SELECT any(process) AS one, min(push) AS first, any(end_ns) AS ended FROM fleet.windows
        WHERE service = '$service' AND toDateTime(intDiv(end_ns, 1000000000)) BETWEEN $__fromTime AND $__toTime
        GROUP BY window
      ) GROUP BY one)
      GROUP BY stack HAVING bytes > 0
    ) AS sums ALL INNER JOIN (
      SELECT stack, arrayMap(x -> x.2, arrayReverseSort(groupArray((number, name)))) AS names FROM (
        SELECT stack, frame, number FROM (SELECT stack, any(frames) AS path FROM fleet.stacks GROUP BY stack)
        ARRAY JOIN path AS frame, arrayEnumerate(path) AS number
      ) AS places ALL INNER JOIN (
        SELECT frame, any(if(function != '', function, module)) AS name FROM fleet.frames GROUP BY frame
      ) AS names_of USING frame
      GROUP BY stack
    ) AS paths USING stack
  )
  GROUP BY path
) ORDER BY path
