-- epsilon: 1
-- delta: 1e-6
-- groups: 50
-- rows: 1
SELECT age, COUNT(*) AS n, SUM(cost) AS total FROM visits GROUP BY age
---
costs ε 1, δ 1e-06
reads visits, protects one person, by patient_id (add or remove one)
  grouped by age (121): 121 groups, all answered
  one unit: at most 50 groups, the weight of 1 row in each
  count of rows: Gaussian noise, scale 42.2468, l2 sensitivity 7.07107, within ±83 (noise only)
  sum of cost: Gaussian noise, scale 422468, l2 sensitivity 70710.7, within ±828022 (noise only)
note: a person counts in at most 50 groups; their others are left out
note: a person weighs at most as much as 1 row in each group: where there are more, each weighs less, so counts and sums shrink, while averages and shares keep their size
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
loss: Together(losses=(GaussianNoise(multiplier=Fraction(1902626227174658890969120768, 318452583626288628232421875)), GaussianNoise(multiplier=Fraction(487072314156712676088094916608, 81523861408329888827184824375))))
private SQL: SELECT k0, count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0, CAST(greatest(least(coalesce(sum(t1), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m1 FROM (SELECT k0, least(n, 1) AS t0, CASE WHEN n <= 1 THEN t1 ELSE ((t1 + 1000000::HUGEINT * n) * 1::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(d, 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - 1000000 END AS t1 FROM (SELECT c.d AS d, c.k0 AS k0, c.n AS n, c.t1 AS t1 FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, ':', k0)), k0 := k0, n := n, t1 := t1), 50)) AS c FROM (SELECT u, k0, count(*) AS n, coalesce(sum(v1 - 0::BIGINT), 0)::HUGEINT AS t1 FROM (SELECT u, "c_age" AS k0, "c_cost" AS v1 FROM (SELECT "patient_id" AS u, CASE WHEN "age" < 0::BIGINT THEN 0::BIGINT WHEN "age" > 120::BIGINT THEN 120::BIGINT ELSE "age" END AS "c_age", CASE WHEN "cost" IS NULL OR isnan("cost") THEN NULL WHEN "cost" <= CAST('0.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) <= CAST('0.0' AS DOUBLE) THEN 0::BIGINT WHEN "cost" >= CAST('10000.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) >= CAST('1000000.0' AS DOUBLE) THEN 1000000::BIGINT ELSE least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT))) END AS "c_cost" FROM "visits") WHERE u IS NOT NULL AND "c_age" IS NOT NULL) GROUP BY u, k0) GROUP BY u))) GROUP BY k0
after it: SELECT "released_1"."released_1_k0" AS "age", "released_1"."released_1_a0" AS "n", "released_1"."released_1_a1" AS "total", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1", "released_1"."released_1_low1_1" AS "released_1_low_of_2", "released_1"."released_1_high1_1" AS "released_1_high_of_2" FROM "released_1"
