-- epsilon: 1
-- groups: 9
SELECT region, COUNT(*) AS n FROM visits GROUP BY 1
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (region in ('north', 'south', 'east', 'west'))
  grouped by region (4): 4 groups, all answered
  one unit: at most 4 groups, the weight of 10 rows in each
  count of rows: geometric noise, scale 40, l1 sensitivity 40, within ±120 (noise only)
note: a person counts as at most 10 rows in each group: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
note: only declared values of region are answered
loss: Pure(epsilon=1)
private SQL: SELECT g, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT u, g, least(n, 10) AS t0 FROM (SELECT u, g, count(*) AS n FROM (SELECT * FROM (SELECT u, CAST(enum_code(TRY_CAST(k0 AS ENUM('north', 'south', 'east', 'west'))) AS BIGINT) AS g FROM (SELECT u, "c_region" AS k0 FROM (SELECT "patient_id" AS u, substring("region", 1, 1000) AS "c_region" FROM "visits") WHERE u IS NOT NULL AND "c_region" IS NOT NULL)) WHERE g IS NOT NULL) GROUP BY u, g)) GROUP BY g
after it: SELECT "released_1"."released_1_k0" AS "region", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
