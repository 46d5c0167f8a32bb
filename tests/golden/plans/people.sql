-- epsilon: 0.5
SELECT COUNT(DISTINCT patient_id) AS people FROM visits WHERE emergency
---
costs ε 0.5
reads visits, protects one person, by patient_id (add or remove one)
  where emergency
  one unit: at most 1 group, the weight of 1 row in each
  count of people: geometric noise, scale 2, l1 sensitivity 1, within ±6
note: rows without patient_id are left out
loss: Pure(epsilon=0.5)
private SQL: SELECT count(*) AS units, count(*) AS m0 FROM (SELECT 1 AS one FROM (SELECT u, count(*) AS n FROM (SELECT u FROM (SELECT "patient_id" AS u, "emergency" AS "c_emergency" FROM "visits") WHERE u IS NOT NULL AND "c_emergency") GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "people", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0" FROM "released_1"
