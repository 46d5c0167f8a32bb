-- epsilon: 1
-- delta: 1e-8
SELECT department, COUNT(*) AS n FROM visits GROUP BY department HAVING n > 100
---
costs ε 1, δ 1e-08
reads visits, protects one person, by patient_id (add or remove one)
  grouped by department (from the data): named privately
  selection of groups: ε 0.5, δ 1e-08, 3 keys
  one unit: at most 3 groups, the weight of 10 rows in each
  count of rows: geometric noise, scale 60, l1 sensitivity 30, within ±180 (noise only)
note: a person counts in at most 3 groups; their other groups are dropped
note: a person counts as at most 10 rows in each group: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
note: groups are named privately: one with 117 people is named with probability 95 %, smaller ones less often
loss: Together(Pure(epsilon=0.5), Approximate(epsilon=0.5, delta=1e-08))
private SQL: SELECT k0, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT k0, least(n, 10) AS t0 FROM (SELECT c.d AS d, c.k0 AS k0, c.n AS n FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, CASE WHEN k0 IS NULL THEN '!' ELSE concat(':', length(k0), ':', k0) END)), k0 := k0, n := n), 3)) AS c FROM (SELECT u, k0, count(*) AS n FROM (SELECT u, "c_department" AS k0 FROM (SELECT "patient_id" AS u, substring("department", 1, 1000) AS "c_department" FROM "visits") WHERE u IS NOT NULL) GROUP BY u, k0) GROUP BY u))) GROUP BY k0
after it: SELECT "released_1"."released_1_k0" AS "department", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1" WHERE n > 100
