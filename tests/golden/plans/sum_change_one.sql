-- epsilon: 1
-- neighbors: change one
SELECT role, SUM(salary) AS total FROM staff GROUP BY role
---
costs ε 1
reads staff, protects one row (change one)
  where (role in ('nurse', 'doctor'))
  grouped by role (2): 2 groups, all answered
  one unit: at most 1 group, the weight of 1 row in each
  sum of salary: geometric noise, scale 400, l1 sensitivity 400, within ±1,198.5 (noise only)
note: salary is clamped to -100 to 200 in steps of 0.5
note: only declared values of role are answered
loss: Pure(epsilon=1)
private SQL: SELECT g, count(*) AS units, CAST(greatest(least(coalesce(sum(v0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT * FROM (SELECT CAST(enum_code(TRY_CAST(k0 AS ENUM('nurse', 'doctor'))) AS BIGINT) AS g, v0 FROM (SELECT "c_role" AS k0, "c_salary" AS v0 FROM (SELECT substring("role", 1, 1000) AS "c_role", CASE WHEN TRY_CAST(round("salary" * CAST('2.0' AS DOUBLE)) AS BIGINT) BETWEEN (-200)::BIGINT AND 400::BIGINT THEN TRY_CAST(round("salary" * CAST('2.0' AS DOUBLE)) AS BIGINT) ELSE CASE WHEN NOT isnan("salary") THEN least(400::BIGINT, greatest((-200)::BIGINT, TRY_CAST(round(least(greatest("salary", CAST('-100.0' AS DOUBLE)), CAST('200.0' AS DOUBLE)) * CAST('2.0' AS DOUBLE)) AS BIGINT))) END END AS "c_salary" FROM "staff") WHERE "c_role" IS NOT NULL AND "c_salary" IS NOT NULL)) WHERE g IS NOT NULL) GROUP BY g
after it: SELECT "released_1"."released_1_k0" AS "role", "released_1"."released_1_a0" AS "total", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
