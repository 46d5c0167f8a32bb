-- epsilon: 1
SELECT SUM(cost) AS total FROM visits
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  one unit: at most 1 group, the weight of 10 rows in each
  sum of cost: geometric noise, scale 100,000, l1 sensitivity 100,000, within ±299,573 (noise only)
note: a person counts as at most 10 rows: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
loss: Pure(epsilon=1)
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT CASE WHEN n <= 10 THEN CAST(t0 AS BIGINT) ELSE CAST(((t0 + 1000000::HUGEINT * n) * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(md5(concat($salt, ':', u)), 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - 10000000 AS BIGINT) END AS t0 FROM (SELECT u, count(*) AS n, coalesce(sum(v0 - 0::BIGINT), 0) AS t0 FROM (SELECT u, "c_cost" AS v0 FROM (SELECT "patient_id" AS u, CASE WHEN TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT) BETWEEN 0::BIGINT AND 1000000::BIGINT THEN TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT) ELSE CASE WHEN NOT isnan("cost") THEN least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round(least(greatest("cost", CAST('0.0' AS DOUBLE)), CAST('10000.0' AS DOUBLE)) * CAST('100.0' AS DOUBLE)) AS BIGINT))) END END AS "c_cost" FROM "visits") WHERE u IS NOT NULL) GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "total", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0" FROM "released_1"
