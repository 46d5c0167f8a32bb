-- epsilon: 1
-- neighbors: change one
SELECT COUNT(*) AS n FROM staff
---
costs ε 1
reads staff, protects one row (change one)
  one unit: at most 1 group, the weight of 1 row in each
  count of rows: geometric noise, scale 1, l1 sensitivity 1, within ±3
loss: Pure(epsilon=1)
private SQL: SELECT count(*) AS units, count(*) AS m0 FROM (SELECT 1 AS one FROM (SELECT 1 AS one FROM "staff"))
after it: SELECT "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0" FROM "released_1"
