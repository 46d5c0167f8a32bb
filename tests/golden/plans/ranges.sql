-- epsilon: 1
SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS band, COUNT(*) AS n FROM visits GROUP BY band
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  grouped by band (3): 3 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  count of rows: geometric noise, scale 30, l1 sensitivity 30, within ±90 (noise only)
note: a person counts as at most 10 rows in each group: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
loss: Pure(epsilon=1)
private SQL: SELECT g, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT u, g, least(n, 10) AS t0 FROM (SELECT u, g, count(*) AS n FROM (SELECT * FROM (SELECT u, CAST(enum_code(TRY_CAST(k0 AS ENUM('child', 'adult', 'old'))) AS BIGINT) AS g FROM (SELECT u, CASE WHEN ("c_age" < 18::BIGINT) THEN 'child' WHEN ("c_age" < 65::BIGINT) THEN 'adult' ELSE 'old' END AS k0 FROM (SELECT "patient_id" AS u, CASE WHEN "age" < 0::BIGINT THEN 0::BIGINT WHEN "age" > 120::BIGINT THEN 120::BIGINT ELSE "age" END AS "c_age" FROM "visits") WHERE u IS NOT NULL AND "c_age" IS NOT NULL)) WHERE g IS NOT NULL) GROUP BY u, g)) GROUP BY g
after it: SELECT "released_1"."released_1_k0" AS "band", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
