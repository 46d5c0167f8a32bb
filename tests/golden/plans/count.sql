-- epsilon: 1
SELECT COUNT(*) FROM visits
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  one unit: at most 1 group, the weight of 10 rows in each
  count of rows: geometric noise, scale 10, l1 sensitivity 10, within ±30 (noise only)
note: a person counts as at most 10 rows: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
loss: Pure(epsilon=1)
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT least(n, 10) AS t0 FROM (SELECT u, count(*) AS n FROM (SELECT u FROM (SELECT "patient_id" AS u FROM "visits") WHERE u IS NOT NULL) GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "COUNT(*)", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0" FROM "released_1"
