-- epsilon: 1
SELECT COUNT(stay) AS stays, COUNT(age) AS ages FROM visits
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  one unit: at most 1 group, the weight of 10 rows in each
  count of stay: geometric noise, scale 20, l1 sensitivity 10, within ±60 (noise only)
  count of rows: geometric noise, scale 20, l1 sensitivity 10, within ±60 (noise only)
note: a person counts as at most 10 rows: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
loss: Together(Pure(epsilon=0.5), Pure(epsilon=0.5))
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0, CAST(greatest(least(coalesce(sum(t1), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m1 FROM (SELECT CASE WHEN n <= 10 THEN CAST(t0 AS BIGINT) ELSE CAST((t0 * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(md5(concat($salt, ':', u)), 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) AS BIGINT) END AS t0, least(n, 10) AS t1 FROM (SELECT u, count(*) AS n, count(v0) AS t0 FROM (SELECT u, "c_stay" AS v0 FROM (SELECT "patient_id" AS u, CASE WHEN "stay" < 0::BIGINT THEN 0::BIGINT WHEN "stay" > 365::BIGINT THEN 365::BIGINT ELSE "stay" END AS "c_stay" FROM "visits") WHERE u IS NOT NULL) GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "stays", "released_1"."released_1_a1" AS "ages", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0", "released_1"."released_1_low1_1" AS "released_1_low_of_1", "released_1"."released_1_high1_1" AS "released_1_high_of_1" FROM "released_1"
