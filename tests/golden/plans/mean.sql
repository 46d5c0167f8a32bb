-- epsilon: 1
SELECT AVG(stay) AS stay FROM visits WHERE age >= 65
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (age >= 65)
  one unit: at most 1 group, the weight of 10 rows in each
  sum of stay about 182: geometric noise, scale 3,660, l1 sensitivity 1,830, within ±10,964 (noise only)
  count of stay: geometric noise, scale 20, l1 sensitivity 10, within ±60 (noise only)
  mean of stay: within about ±27,043 ÷ the rows of its group (noise only); below 75 rows, no more precise than its bounds
note: a person counts as at most 10 rows: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
note: stay is clamped to 0 to 365
loss: Together(Pure(epsilon=0.5), Pure(epsilon=0.5))
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0, CAST(greatest(least(coalesce(sum(t1), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m1 FROM (SELECT CASE WHEN n <= 10 THEN CAST(t0 AS BIGINT) ELSE CAST(((t0 + 183::HUGEINT * n) * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(md5(concat($salt, ':', u)), 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - 1830 AS BIGINT) END AS t0, CASE WHEN n <= 10 THEN CAST(t1 AS BIGINT) ELSE CAST((t1 * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(md5(concat($salt, ':', u)), 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) AS BIGINT) END AS t1 FROM (SELECT u, count(*) AS n, coalesce(sum(v0 - 182::BIGINT), 0) AS t0, count(v1) AS t1 FROM (SELECT u, "c_stay" AS v0, "c_stay" AS v1 FROM (SELECT "patient_id" AS u, CASE WHEN "age" < 0::BIGINT THEN 0::BIGINT WHEN "age" > 120::BIGINT THEN 120::BIGINT ELSE "age" END AS "c_age", CASE WHEN "stay" < 0::BIGINT THEN 0::BIGINT WHEN "stay" > 365::BIGINT THEN 365::BIGINT ELSE "stay" END AS "c_stay" FROM "visits") WHERE u IS NOT NULL AND "c_age" IS NOT NULL AND ("c_age" >= 65::BIGINT)) GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "stay", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0" FROM "released_1"
