-- epsilon: 1
WITH old AS (SELECT region AS r, cost * 1.2 AS c FROM visits WHERE age > 64) SELECT r, SUM(c) AS total FROM (SELECT * FROM old WHERE c > 100) AS dear GROUP BY r
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  where (age > 64)
  where ((cost * 1.2) > 99.996)
  where (region in ('north', 'south', 'east', 'west'))
  grouped by r (4): 4 groups, all answered
  one unit: at most 3 groups, the weight of 10 rows in each
  sum of (cost * 1.2): geometric noise, scale 360,000, l1 sensitivity 360,000, within ±1,078,460 (noise only)
note: a person counts in at most 3 groups; their other groups are dropped
note: a person counts as at most 10 rows in each group: if they have more, each row weighs less, so counts and sums shrink, but averages and shares do not
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
note: only declared values of r are answered
loss: Pure(epsilon=1)
private SQL: SELECT g, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0 FROM (SELECT ((c0 >> 0) & 16777215) AS t0, ((c0 >> 24) & 3) AS g FROM (SELECT unnest(min(p * 67108864 + t0 + g * 16777216, 3)) AS c0 FROM (SELECT u, g, p, CASE WHEN n <= 10 THEN CAST(t0 AS BIGINT) ELSE CAST(((t0 + 1000000::HUGEINT * n) * 10::HUGEINT * 65536::HUGEINT + n * (((xor(p, CAST('0x' || substring(md5($salt), 25, 8) AS BIGINT)) * 73244475) & 4294967295) >> 16)::HUGEINT) // (n * 65536::HUGEINT) - 10000000 AS BIGINT) END AS t0 FROM (SELECT *, xor(p8, p8 >> 16) AS p FROM (SELECT *, (xor(p7, p7 >> 16) * 73244475) & 4294967295 AS p8 FROM (SELECT *, (xor(p6, p6 >> 16) * 73244475) & 4294967295 AS p7 FROM (SELECT *, xor(xor(p5, p5 >> 16), xor(g, CAST('0x' || substring(md5($salt), 17, 8) AS BIGINT))) AS p6 FROM (SELECT *, (xor(p4, p4 >> 16) * 73244475) & 4294967295 AS p5 FROM (SELECT *, (xor(p3, p3 >> 16) * 73244475) & 4294967295 AS p4 FROM (SELECT *, xor(xor(p2, p2 >> 16), xor(((u >> 32) & 4294967295), CAST('0x' || substring(md5($salt), 9, 8) AS BIGINT))) AS p3 FROM (SELECT *, (xor(p1, p1 >> 16) * 73244475) & 4294967295 AS p2 FROM (SELECT *, (xor(p0, p0 >> 16) * 73244475) & 4294967295 AS p1 FROM (SELECT *, xor((u & 4294967295), CAST('0x' || substring(md5($salt), 1, 8) AS BIGINT)) AS p0 FROM (SELECT u, g, count(*) AS n, coalesce(sum(v0 - 0::BIGINT), 0) AS t0 FROM (SELECT * FROM (SELECT u, CAST(enum_code(TRY_CAST(k0 AS ENUM('north', 'south', 'east', 'west'))) AS BIGINT) AS g, v0 FROM (SELECT u, "c_region" AS k0, "c_cost" AS v0 FROM (SELECT "patient_id" AS u, CASE WHEN "age" < 0::BIGINT THEN 0::BIGINT WHEN "age" > 120::BIGINT THEN 120::BIGINT ELSE "age" END AS "c_age", CASE WHEN TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT) BETWEEN 0::BIGINT AND 1000000::BIGINT THEN TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT) ELSE CASE WHEN NOT isnan("cost") THEN least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round(least(greatest("cost", CAST('0.0' AS DOUBLE)), CAST('10000.0' AS DOUBLE)) * CAST('100.0' AS DOUBLE)) AS BIGINT))) END END AS "c_cost", substring("region", 1, 1000) AS "c_region" FROM "visits") WHERE u IS NOT NULL AND "c_age" IS NOT NULL AND "c_region" IS NOT NULL AND ("c_age" > 64::BIGINT) AND ("c_cost" > 8333::BIGINT))) WHERE g IS NOT NULL) GROUP BY u, g)))))))))))) GROUP BY u)) GROUP BY g
after it: SELECT "released_1"."released_1_k0" AS "r", "released_1"."released_1_a0" AS "total", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
