-- epsilon: 1
-- delta: 1e-8
-- neighbors: change one
SELECT ward, COUNT(*) AS n FROM staff GROUP BY ward
---
costs ε 1, δ 1e-08
reads staff, protects one row (change one)
  grouped by ward (from the data): named privately
  selection of groups: ε 0.5, δ 1e-08, 2 keys
  one unit: at most 1 group, the weight of 1 row in each
  count of rows: geometric noise, scale 4, l1 sensitivity 2, within ±12
note: groups are named privately: one with 78 rows is named with probability 95 %, smaller ones less often
loss: Together(Pure(epsilon=0.5), Approximate(epsilon=0.5, delta=1e-08))
private SQL: SELECT k0, count(*) AS units, count(*) AS m0 FROM (SELECT "c_ward" AS k0 FROM (SELECT substring("ward", 1, 1000) AS "c_ward" FROM "staff")) GROUP BY k0
after it: SELECT "released_1"."released_1_k0" AS "ward", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
