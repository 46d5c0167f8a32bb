-- epsilon: 1
SELECT MONTH(admitted) AS month, COUNT(*) AS n FROM visits WHERE admitted >= '2024-01-01' GROUP BY month ORDER BY month
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (admitted >= '2024-01-01')
  grouped by month (13): 13 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  count of rows: geometric noise, scale 30, l1 sensitivity 30, within ±90 (noise only)
note: a person counts in at most 3 groups; their others are left out
note: a person weighs at most as much as 10 rows in each group: where there are more, each weighs less, so counts and sums shrink, while averages and shares keep their size
note: rows without patient_id are left out
loss: Pure(epsilon=Fraction(1, 1))
private SQL: SELECT k0, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT k0, least(n, 10) AS t0 FROM (SELECT c.d AS d, c.k0 AS k0, c.n AS n FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, CASE WHEN k0 IS NULL THEN '!' ELSE concat(':', k0) END)), k0 := k0, n := n), 3)) AS c FROM (SELECT u, k0, count(*) AS n FROM (SELECT u, CASE WHEN TRY(CAST(date_part('month', "c_admitted") AS BIGINT)) BETWEEN 1 AND 12 THEN TRY(CAST(date_part('month', "c_admitted") AS BIGINT)) END AS k0 FROM (SELECT "patient_id" AS u, "admitted" AS "c_admitted" FROM "visits") WHERE u IS NOT NULL AND ("c_admitted" >= DATE '2024-01-01')) GROUP BY u, k0) GROUP BY u))) GROUP BY k0
after it: SELECT "released_1"."released_1_k0" AS "month", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1" ORDER BY month
