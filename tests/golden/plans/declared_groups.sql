-- epsilon: 1
-- groups: 2
-- rows: 5
SELECT region, emergency, COUNT(*) AS n FROM visits GROUP BY region, emergency ORDER BY n DESC
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (region in ('north', 'south', 'east', 'west'))
  grouped by region (4), emergency (3): 12 groups, all answered
  one unit: at most 2 groups, the weight of 5 rows in each
  count of rows: geometric noise, scale 10, l1 sensitivity 10, within ±30 (noise only)
note: a person counts in at most 2 groups; their others are left out
note: a person weighs at most as much as 5 rows in each group: where there are more, each weighs less, so counts and sums shrink, while averages and shares keep their size
note: rows without patient_id are left out
note: only declared values of region are answered
loss: Pure(epsilon=Fraction(1, 1))
private SQL: SELECT k0, k1, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT k0, k1, least(n, 5) AS t0 FROM (SELECT c.d AS d, c.k0 AS k0, c.k1 AS k1, c.n AS n FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, ':', length(k0), ':', k0, CASE WHEN k1 IS NULL THEN '!' ELSE concat(':', k1) END)), k0 := k0, k1 := k1, n := n), 2)) AS c FROM (SELECT u, k0, k1, count(*) AS n FROM (SELECT u, "c_region" AS k0, "c_emergency" AS k1 FROM (SELECT "patient_id" AS u, substring("region", 1, 1000) AS "c_region", "emergency" AS "c_emergency" FROM "visits") WHERE u IS NOT NULL AND "c_region" IS NOT NULL AND ("c_region" IN ('north', 'south', 'east', 'west'))) GROUP BY u, k0, k1) GROUP BY u))) GROUP BY k0, k1
after it: SELECT "released_1"."released_1_k0" AS "region", "released_1"."released_1_k1" AS "emergency", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_2", "released_1"."released_1_high0_1" AS "released_1_high_of_2" FROM "released_1" ORDER BY n DESC
