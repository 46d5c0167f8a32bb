-- epsilon: 1
WITH old AS (SELECT region AS r, cost * 1.2 AS c FROM visits WHERE age > 64) SELECT r, SUM(c) AS total FROM (SELECT * FROM old WHERE c > 100) AS dear GROUP BY r
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (age > 64)
  where ((cost * 1.2) > 99.996)
  where (region in ('north', 'south', 'east', 'west'))
  grouped by r (4): 4 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  sum of (cost * 1.2): geometric noise, scale 360000, l1 sensitivity 360000, within ±1.07846e+06 (noise only)
note: a person counts in at most 3 groups; their others are left out
note: a person weighs at most as much as 10 rows in each group: where there are more, each weighs less, so counts and sums shrink, while averages and shares keep their size
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
note: only declared values of r are answered
loss: Pure(epsilon=Fraction(1, 1))
private SQL: SELECT k0, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT k0, CASE WHEN n <= 10 THEN t0 ELSE ((t0 + 1000000::HUGEINT * n) * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(d, 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - 10000000 END AS t0 FROM (SELECT c.d AS d, c.k0 AS k0, c.n AS n, c.t0 AS t0 FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, ':', length(k0), ':', k0)), k0 := k0, n := n, t0 := t0), 3)) AS c FROM (SELECT u, k0, count(*) AS n, coalesce(sum(v0 - 0::BIGINT), 0)::HUGEINT AS t0 FROM (SELECT u, "c_region" AS k0, "c_cost" AS v0 FROM (SELECT "patient_id" AS u, CASE WHEN "age" < 0::BIGINT THEN 0::BIGINT WHEN "age" > 120::BIGINT THEN 120::BIGINT ELSE "age" END AS "c_age", CASE WHEN "cost" IS NULL OR isnan("cost") THEN NULL WHEN "cost" <= CAST('0.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) <= CAST('0.0' AS DOUBLE) THEN 0::BIGINT WHEN "cost" >= CAST('10000.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) >= CAST('1000000.0' AS DOUBLE) THEN 1000000::BIGINT ELSE least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT))) END AS "c_cost", substring("region", 1, 1000) AS "c_region" FROM "visits") WHERE u IS NOT NULL AND "c_age" IS NOT NULL AND "c_region" IS NOT NULL AND ("c_age" > 64::BIGINT) AND ("c_cost" > 8333::BIGINT) AND ("c_region" IN ('north', 'south', 'east', 'west'))) GROUP BY u, k0) GROUP BY u))) GROUP BY k0
after it: SELECT "released_1"."released_1_k0" AS "r", "released_1"."released_1_a0" AS "total", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
