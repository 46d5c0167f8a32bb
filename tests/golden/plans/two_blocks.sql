-- epsilon: 1
SELECT COUNT(*) / (SELECT COUNT(*) FROM visits) AS share FROM visits WHERE emergency
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  one unit: at most 1 group, the weight of 10 rows in each
  count of rows: geometric noise, scale 20, l1 sensitivity 10, within ±60 (noise only)
reads visits, protects one person, by patient_id (add or remove one)
  where emergency
  one unit: at most 1 group, the weight of 10 rows in each
  count of rows: geometric noise, scale 20, l1 sensitivity 10, within ±60 (noise only)
note: a person counts as at most 10 rows: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
loss: Together(Pure(epsilon=0.5), Pure(epsilon=0.5))
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT least(n, 10) AS t0 FROM (SELECT u, count(*) AS n FROM (SELECT u FROM (SELECT "patient_id" AS u FROM "visits") WHERE u IS NOT NULL) GROUP BY u))
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT least(n, 10) AS t0 FROM (SELECT u, count(*) AS n FROM (SELECT u FROM (SELECT "patient_id" AS u, "emergency" AS "c_emergency" FROM "visits") WHERE u IS NOT NULL AND "c_emergency") GROUP BY u))
after it: SELECT "released_1"."released_1_a0" / (SELECT "released_2"."released_2_a0" AS "COUNT(*)" FROM "released_2") AS "share" FROM "released_1"
