-- epsilon: 1
-- delta: 1e-8
-- neighbors: change one
SELECT department, MEDIAN(cost) AS cost FROM visits GROUP BY department
---
costs ε 1, δ 1e-08
reads visits, protects one person, by patient_id (change one)
  grouped by department (from the data): named privately
  selection of groups: ε 0.5, δ 1e-08, 6 keys
  one unit: at most 3 groups, the weight of 10 rows in each
  values of cost: quantile 0.5 chosen with ε 0.25, rank sensitivity 30, within ±4035 ranks
  values of cost: quantile 0.5, 8404 ranks below it chosen with ε 0.125, rank sensitivity 30, within ±8069 ranks
  values of cost: quantile 0.5, 8404 ranks above it chosen with ε 0.125, rank sensitivity 30, within ±8069 ranks
  quantile 0.5 of cost: within about ±4035 ranks (noise only)
warning: quantile 0.5 of cost over fewer than 4,035 values may be anywhere
note: a person counts in at most 3 groups; their other groups are dropped
note: quantiles and histograms use at most 10 rows of a person in each group: if there are more, this many of them, evenly spaced in their order
note: rows without patient_id are left out
note: cost is clamped to 0 to 10000 in steps of 0.01
note: groups are named privately: one with 233 people is named with probability 95 %, smaller ones less often
loss: Together(BoundedRange(epsilon=0.25), BoundedRange(epsilon=0.125), BoundedRange(epsilon=0.125), Approximate(epsilon=0.5, delta=1e-08))
private SQL: SELECT k0, count(*) AS units FROM (SELECT k0 FROM (SELECT c.d AS d, c.k0 AS k0, c.n AS n FROM (SELECT u, unnest(min(struct_pack(d := md5(concat($salt, ':', u, CASE WHEN k0 IS NULL THEN '!' ELSE concat(':', length(k0), ':', k0) END)), k0 := k0, n := n), 3)) AS c FROM (SELECT u, k0, count(*) AS n FROM (SELECT u, "c_department" AS k0 FROM (SELECT "patient_id" AS u, substring("department", 1, 1000) AS "c_department" FROM "visits") WHERE u IS NOT NULL) GROUP BY u, k0) GROUP BY u))) GROUP BY k0; SELECT k0, v, CAST(sum(c) AS BIGINT) AS c FROM (SELECT * FROM (SELECT k0, v, CASE WHEN n <= 10 THEN c ELSE (upto * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(d, 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) - ((upto - c) * 10::HUGEINT * 65536::HUGEINT + n * CAST('0x' || substring(d, 29) AS BIGINT)::HUGEINT) // (n * 65536::HUGEINT) END AS c FROM (SELECT *, sum(c) OVER (PARTITION BY u, k0 ORDER BY v) AS upto, sum(c) OVER (PARTITION BY u, k0) AS n FROM (SELECT * FROM (SELECT * FROM (SELECT *, md5(concat($salt, ':', u, CASE WHEN k0 IS NULL THEN '!' ELSE concat(':', length(k0), ':', k0) END)) AS d FROM (SELECT u, k0, v0 AS v, count(*) AS c FROM (SELECT u, "c_department" AS k0, "c_cost" AS v0 FROM (SELECT "patient_id" AS u, substring("department", 1, 1000) AS "c_department", CASE WHEN TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT) BETWEEN 0::BIGINT AND 1000000::BIGINT THEN TRY_CAST(round("cost" * CAST('100.0' AS DOUBLE)) AS BIGINT) ELSE CASE WHEN NOT isnan("cost") THEN least(1000000::BIGINT, greatest(0::BIGINT, TRY_CAST(round(least(greatest("cost", CAST('0.0' AS DOUBLE)), CAST('10000.0' AS DOUBLE)) * CAST('100.0' AS DOUBLE)) AS BIGINT))) END END AS "c_cost" FROM "visits") WHERE u IS NOT NULL) GROUP BY u, k0, v0)) QUALIFY dense_rank() OVER (PARTITION BY u ORDER BY d, k0) <= 3) WHERE v IS NOT NULL))) WHERE c > 0) GROUP BY k0, v
after it: SELECT "released_1"."released_1_k0" AS "department", "released_1"."released_1_a0" AS "cost", "released_1"."released_1_low0_1" AS "released_1_low_of_1", "released_1"."released_1_high0_1" AS "released_1_high_of_1" FROM "released_1"
