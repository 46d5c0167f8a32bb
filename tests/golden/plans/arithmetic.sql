-- epsilon: 1
SELECT SUM(cost / 2 - 3 * stay + 0.5) AS x, AVG(ROUND(cost)) AS rounded FROM visits
---
costs ε 1
reads visits, protects one person, by patient_id (add or remove one)
  one unit: at most 1 group, the weight of 10 rows in each
  sum of (((cost / 2) - (stay * 3)) + 0.5): geometric noise, scale 150015, l1 sensitivity 50005, within ±449405
  sum of floor((cost + 0.5)) about 5000: geometric noise, scale 150000, l1 sensitivity 50000, within ±449360
  count of floor((cost + 0.5)): geometric noise, scale 30, l1 sensitivity 10, within ±90
  mean of floor((cost + 0.5)): within about ±1.10833e+06 ÷ the rows of its group
note: a person weighs at most as much as 10 rows: where there are more, each weighs less, so counts and sums shrink, while averages and shares keep their size
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
note: stay is clamped to 0 to 365
loss: Together(losses=(Pure(epsilon=Fraction(1, 3)), Pure(epsilon=Fraction(1, 3)), Pure(epsilon=Fraction(1, 3))))
private SQL: SELECT count(*) AS units, CAST(greatest(least(coalesce(sum(t0), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m0, CAST(greatest(least(coalesce(sum(t1), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m1, CAST(greatest(least(coalesce(sum(t2), 0), 2305843009213693952), -2305843009213693952) AS BIGINT) AS m2 FROM (SELECT CASE WHEN n <= 10 THEN t0 ELSE ((t0 + 1000100::HUGEINT * n) * 10::HUGEINT * 65536 + n * (hash(u) & 65535)::HUGEINT) // (n * 65536::HUGEINT) - 10001000 END AS t0, CASE WHEN n <= 10 THEN t1 ELSE ((t1 + 5000::HUGEINT * n) * 10::HUGEINT * 65536 + n * (hash(u) & 65535)::HUGEINT) // (n * 65536::HUGEINT) - 50000 END AS t1, CASE WHEN n <= 10 THEN t2 ELSE (t2 * 10::HUGEINT * 65536 + n * (hash(u) & 65535)::HUGEINT) // (n * 65536::HUGEINT) END AS t2 FROM (SELECT u, count(*) AS n, coalesce(sum(v0 - 0::BIGINT), 0)::HUGEINT AS t0, coalesce(sum(v1 - 5000::BIGINT), 0)::HUGEINT AS t1, count(v2) AS t2 FROM (SELECT u, (("c_cost" - ("c_stay" * 600::BIGINT)) + 100::BIGINT) AS v0, (("c_cost" + 50::BIGINT) // 100::BIGINT) AS v1, (("c_cost" + 50::BIGINT) // 100::BIGINT) AS v2 FROM (SELECT "patient_id" AS u, CASE WHEN "cost" IS NULL OR isnan("cost") THEN NULL WHEN "cost" <= CAST('0.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) <= CAST('0.0' AS DOUBLE) THEN 0::BIGINT WHEN "cost" >= CAST('10000.0' AS DOUBLE) OR "cost" * CAST('100.0' AS DOUBLE) >= CAST('1000000.0' AS DOUBLE) THEN 1000000::BIGINT ELSE least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT))) END AS "c_cost", CASE WHEN "stay" < 0::BIGINT THEN 0::BIGINT WHEN "stay" > 365::BIGINT THEN 365::BIGINT ELSE "stay" END AS "c_stay" FROM "visits") WHERE u IS NOT NULL) GROUP BY u))
after it: SELECT "released_1"."released_1_a0" AS "x", "released_1"."released_1_a1" AS "rounded", "released_1"."released_1_low0_1" AS "released_1_low_of_0", "released_1"."released_1_high0_1" AS "released_1_high_of_0", "released_1"."released_1_low1_1" AS "released_1_low_of_1", "released_1"."released_1_high1_1" AS "released_1_high_of_1" FROM "released_1"
