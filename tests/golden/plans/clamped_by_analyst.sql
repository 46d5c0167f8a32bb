-- epsilon: 1
SELECT SUM(LEAST(GREATEST(code, 0), 9)) AS s FROM visits
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  one unit: at most 1 group, the weight of 10 rows in each
  sum of least(greatest(code, 0), 9): geometric noise, scale 90, l1 sensitivity 90, within ±270 (noise only)
note: a person counts as at most 10 rows: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
loss: Pure(epsilon=1)
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT CASE WHEN n <= 10 THEN CAST(t0 AS BIGINT) ELSE CAST(((t0 + 9::HUGEINT * n) * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(md5(concat($salt, ':', u)), 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - 90 AS BIGINT) END AS t0 FROM (SELECT u, count(*) AS n, coalesce(sum(v0 - 0::BIGINT), 0) AS t0 FROM (SELECT u, least(greatest("c_code", 0::BIGINT), 9::BIGINT) AS v0 FROM (SELECT "patient_id" AS u, "code" AS "c_code" FROM "visits") WHERE u IS NOT NULL) GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "s", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0" FROM "released_1"
