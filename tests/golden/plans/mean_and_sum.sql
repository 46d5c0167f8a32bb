-- epsilon: 1
SELECT region, AVG(cost) AS mean, SUM(cost) AS total, COUNT(*) AS n FROM visits GROUP BY region
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (region in ('north', 'south', 'east', 'west'))
  grouped by region (4): 4 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  sum of cost about 5000: geometric noise, scale 450000, l1 sensitivity 150000, within ±1.34808e+06 (noise only)
  count of cost: geometric noise, scale 90, l1 sensitivity 30, within ±270 (noise only)
  count of rows: geometric noise, scale 90, l1 sensitivity 30, within ±270 (noise only)
  mean of cost: within about ±3.32e+06 ÷ the rows of its group (noise only); below 332 rows, no better known than its bounds
  sum of cost, from the two: within ±3.32e+06 (noise only)
note: a person counts in at most 3 groups; their others are left out
note: a person weighs at most as much as 10 rows in each group: where there are more, each weighs less, so counts and sums shrink, while averages and shares keep their size
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
note: only declared values of region are answered
loss: Together(losses=(Pure(epsilon=Fraction(1, 3)), Pure(epsilon=Fraction(1, 3)), Pure(epsilon=Fraction(1, 3))))
private SQL: SELECT k0, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0, CAST(greatest(least(coalesce(sum(t1), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m1, CAST(greatest(least(coalesce(sum(t2), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m2 FROM (SELECT k0, CASE WHEN n <= 10 THEN t0 ELSE ((t0 + 500000::HUGEINT * n) * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(d, 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - 5000000 END AS t0, CASE WHEN n <= 10 THEN t1 ELSE (t1 * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(d, 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) END AS t1, least(n, 10) AS t2 FROM (SELECT c.d AS d, c.k0 AS k0, c.n AS n, c.t0 AS t0, c.t1 AS t1 FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, ':', length(k0), ':', k0)), k0 := k0, n := n, t0 := t0, t1 := t1), 3)) AS c FROM (SELECT u, k0, count(*) AS n, coalesce(sum(v0 - 500000::BIGINT), 0)::HUGEINT AS t0, count(v1) AS t1 FROM (SELECT u, "c_region" AS k0, "c_cost" AS v0, "c_cost" AS v1 FROM (SELECT "patient_id" AS u, substring("region", 1, 1000) AS "c_region", CASE WHEN "cost" IS NULL OR isnan("cost") THEN NULL WHEN "cost" <= CAST('0.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) <= CAST('0.0' AS DOUBLE) THEN 0::BIGINT WHEN "cost" >= CAST('10000.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) >= CAST('1000000.0' AS DOUBLE) THEN 1000000::BIGINT ELSE least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT))) END AS "c_cost" FROM "visits") WHERE u IS NOT NULL AND "c_region" IS NOT NULL AND ("c_region" IN ('north', 'south', 'east', 'west'))) GROUP BY u, k0) GROUP BY u))) GROUP BY k0
after it: SELECT "released_1"."released_1_k0" AS "region", "released_1"."released_1_a0" AS "mean", "released_1"."released_1_a1" AS "total", "released_1"."released_1_a2" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1", "released_1"."released_1_low1_1" AS "released_1_low_of_2", "released_1"."released_1_high1_1" AS "released_1_high_of_2", "released_1"."released_1_low2_1" AS "released_1_low_of_3", "released_1"."released_1_high2_1" AS "released_1_high_of_3" FROM "released_1"
