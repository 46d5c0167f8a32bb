-- error: 100
SELECT region, COUNT(*) AS n FROM visits GROUP BY region
---
costs ε 0.8943
reads visits, protects one person, by patient_id (add or remove one)
  where (region in ('north', 'south', 'east', 'west'))
  grouped by region (4): 4 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  count of rows: geometric noise, scale 33.5458, l1 sensitivity 30, within ±100 (noise only)
note: a person counts in at most 3 groups; their other groups are dropped
note: a person counts as at most 10 rows in each group: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
note: only declared values of region are answered
loss: Pure(epsilon=0.8943)
private SQL: SELECT g, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT ((c0 >> 0) & 15) AS t0, ((c0 >> 4) & 3) AS g FROM (SELECT unnest(min(p * 64 + t0 + g * 16, 3)) AS c0 FROM (SELECT u, g, p, least(n, 10) AS t0 FROM (SELECT *, xor(p8, p8 >> 16) AS p FROM (SELECT *, (xor(p7, p7 >> 16) * 73244475) & 4294967295 AS p8 FROM (SELECT *, (xor(p6, p6 >> 16) * 73244475) & 4294967295 AS p7 FROM (SELECT *, xor(xor(p5, p5 >> 16), xor(g, CAST('0x' || substring(md5($salt), 17, 8) AS BIGINT))) AS p6 FROM (SELECT *, (xor(p4, p4 >> 16) * 73244475) & 4294967295 AS p5 FROM (SELECT *, (xor(p3, p3 >> 16) * 73244475) & 4294967295 AS p4 FROM (SELECT *, xor(xor(p2, p2 >> 16), xor(((u >> 32) & 4294967295), CAST('0x' || substring(md5($salt), 9, 8) AS BIGINT))) AS p3 FROM (SELECT *, (xor(p1, p1 >> 16) * 73244475) & 4294967295 AS p2 FROM (SELECT *, (xor(p0, p0 >> 16) * 73244475) & 4294967295 AS p1 FROM (SELECT *, xor((u & 4294967295), CAST('0x' || substring(md5($salt), 1, 8) AS BIGINT)) AS p0 FROM (SELECT u, g, count(*) AS n FROM (SELECT * FROM (SELECT u, CAST(enum_code(TRY_CAST(k0 AS ENUM('north', 'south', 'east', 'west'))) AS BIGINT) AS g FROM (SELECT u, "c_region" AS k0 FROM (SELECT "patient_id" AS u, substring("region", 1, 1000) AS "c_region" FROM "visits") WHERE u IS NOT NULL AND "c_region" IS NOT NULL)) WHERE g IS NOT NULL) GROUP BY u, g)))))))))))) GROUP BY u)) GROUP BY g
after it: SELECT "released_1"."released_1_k0" AS "region", "released_1"."released_1_a0" AS "n", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
