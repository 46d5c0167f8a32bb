-- epsilon: 1
SELECT age // 10 * 10 AS decade, COUNT(*) AS n FROM visits GROUP BY decade
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  grouped by decade (13): 13 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  count of rows: geometric noise, scale 30, l1 sensitivity 30, within ±90 (noise only)
note: a person counts in at most 3 groups; their other groups are dropped
note: a person counts as at most 10 rows in each group: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
loss: Pure(epsilon=1)
private SQL: SELECT g, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT ((c0 >> 0) & 15) AS t0, ((c0 >> 4) & 15) AS g FROM (SELECT unnest(min(p * 256 + t0 + g * 16, 3)) AS c0 FROM (SELECT u, g, p, least(n, 10) AS t0 FROM (SELECT *, xor(p8, p8 >> 16) AS p FROM (SELECT *, (xor(p7, p7 >> 16) * 73244475) & 4294967295 AS p8 FROM (SELECT *, (xor(p6, p6 >> 16) * 73244475) & 4294967295 AS p7 FROM (SELECT *, xor(xor(p5, p5 >> 16), xor(g, CAST('0x' || substring(md5($salt), 17, 8) AS BIGINT))) AS p6 FROM (SELECT *, (xor(p4, p4 >> 16) * 73244475) & 4294967295 AS p5 FROM (SELECT *, (xor(p3, p3 >> 16) * 73244475) & 4294967295 AS p4 FROM (SELECT *, xor(xor(p2, p2 >> 16), xor(((u >> 32) & 4294967295), CAST('0x' || substring(md5($salt), 9, 8) AS BIGINT))) AS p3 FROM (SELECT *, (xor(p1, p1 >> 16) * 73244475) & 4294967295 AS p2 FROM (SELECT *, (xor(p0, p0 >> 16) * 73244475) & 4294967295 AS p1 FROM (SELECT *, xor((u & 4294967295), CAST('0x' || substring(md5($salt), 1, 8) AS BIGINT)) AS p0 FROM (SELECT u, g, count(*) AS n FROM (SELECT * FROM (SELECT u, CASE WHEN k0 BETWEEN 0::BIGINT AND 12::BIGINT THEN k0 - 0::BIGINT END AS g FROM (SELECT u, ("c_age" // 10::BIGINT) AS k0 FROM (SELECT "patient_id" AS u, CASE WHEN "age" < 0::BIGINT THEN 0::BIGINT WHEN "age" > 120::BIGINT THEN 120::BIGINT ELSE "age" END AS "c_age" FROM "visits") WHERE u IS NOT NULL AND "c_age" IS NOT NULL)) WHERE g IS NOT NULL) GROUP BY u, g)))))))))))) GROUP BY u)) GROUP BY g
after it: SELECT "released_1"."released_1_k0" AS "decade", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
