-- Questions an analyst of a shop would ask: 22 in the shapes of TPC-H, then 52 others.
-- Above each its name, and then its verdict: "same" (every row of plain DuckDB's answer is in ours), "answered" (where
-- noise shows even so, small groups are not named, or a value is chosen), or "refused" and words of the refusal.

-- t1 prices and discounts by flag: same
SELECT flag, line_status, SUM(quantity) AS quantity, SUM(price) AS price, SUM(price * (1 - discount)) AS discounted,
  SUM(price * (1 - discount) * (1 + tax)) AS charged, AVG(quantity) AS mean_quantity, AVG(price) AS mean_price,
  AVG(discount) AS mean_discount, COUNT(*) AS n
FROM lineitem WHERE shipped <= DATE '1998-12-01' - INTERVAL 90 DAY GROUP BY flag, line_status ORDER BY flag, line_status;

-- t2 the cheapest supplier of a part in a continent: same
SELECT s.balance, s.supplier_id, n.nation, p.part_id, ps.cost
FROM part p JOIN partsupp ps ON p.part_id = ps.part_id JOIN supplier s ON s.supplier_id = ps.supplier_id
  JOIN nation n ON s.nation_id = n.nation_id
WHERE p.size > 25 AND n.continent = 'EUROPE' AND ps.cost = (
  SELECT MIN(q.cost) FROM partsupp q JOIN supplier t ON t.supplier_id = q.supplier_id JOIN nation m ON t.nation_id = m.nation_id
  WHERE q.part_id = p.part_id AND m.continent = 'EUROPE')
ORDER BY s.balance DESC, n.nation, p.part_id LIMIT 10;

-- t3 open orders of the greatest value: refused: one person's
SELECT l.order_id, SUM(l.price * (1 - l.discount)) AS revenue, o.day
FROM customer c, orders o, lineitem l
WHERE c.segment = 'BUILDING' AND c.customer_id = o.customer_id AND l.order_id = o.order_id
  AND o.day < DATE '1995-03-15' AND l.shipped > DATE '1995-03-15'
GROUP BY l.order_id, o.day ORDER BY revenue DESC LIMIT 10;

-- t4 orders by priority with a late item: same
SELECT priority, COUNT(*) AS n FROM orders o
WHERE o.day >= DATE '1993-07-01' AND o.day < DATE '1993-10-01'
  AND EXISTS (SELECT * FROM lineitem l WHERE l.order_id = o.order_id AND l.committed < l.received)
GROUP BY priority ORDER BY priority;

-- t5 revenue from local suppliers by nation: same
SELECT n.nation, SUM(l.price * (1 - l.discount)) AS revenue
FROM customer c, orders o, lineitem l, supplier s, nation n
WHERE c.customer_id = o.customer_id AND l.order_id = o.order_id AND l.supplier_id = s.supplier_id
  AND c.nation_id = s.nation_id AND s.nation_id = n.nation_id AND n.continent = 'ASIA'
  AND o.day >= DATE '1994-01-01' AND o.day < DATE '1995-01-01'
GROUP BY n.nation ORDER BY revenue DESC;

-- t6 revenue that small discounts cost: same
SELECT SUM(price * discount) AS revenue FROM lineitem
WHERE shipped >= DATE '1994-01-01' AND shipped < DATE '1994-01-01' + INTERVAL 1 YEAR
  AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24;

-- t7 volume shipped between two nations by year: same
SELECT supplied, bought, year, SUM(volume) AS revenue FROM (
  SELECT n1.nation AS supplied, n2.nation AS bought, EXTRACT(year FROM l.shipped) AS year, l.price * (1 - l.discount) AS volume
  FROM supplier s, lineitem l, orders o, customer c, nation n1, nation n2
  WHERE s.supplier_id = l.supplier_id AND o.order_id = l.order_id AND c.customer_id = o.customer_id
    AND s.nation_id = n1.nation_id AND c.nation_id = n2.nation_id
    AND ((n1.nation = 'FRANCE' AND n2.nation = 'GERMANY') OR (n1.nation = 'GERMANY' AND n2.nation = 'FRANCE'))
    AND l.shipped BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY supplied, bought, year ORDER BY supplied, bought, year;

-- t8 a nation's share of a market by year: same
SELECT year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS share FROM (
  SELECT EXTRACT(year FROM o.day) AS year, l.price * (1 - l.discount) AS volume, n2.nation
  FROM part p, supplier s, lineitem l, orders o, customer c, nation n1, nation n2
  WHERE p.part_id = l.part_id AND s.supplier_id = l.supplier_id AND l.order_id = o.order_id AND o.customer_id = c.customer_id
    AND c.nation_id = n1.nation_id AND n1.continent = 'AMERICA' AND s.nation_id = n2.nation_id
    AND o.day BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' AND p.kind = 'STEEL') AS sales
GROUP BY year ORDER BY year;

-- t9 profit by nation and year: answered
SELECT nation, year, SUM(amount) AS profit FROM (
  SELECT n.nation, EXTRACT(year FROM o.day) AS year, l.price * (1 - l.discount) - ps.cost * l.quantity AS amount
  FROM part p, supplier s, lineitem l, partsupp ps, orders o, nation n
  WHERE s.supplier_id = l.supplier_id AND ps.supplier_id = l.supplier_id AND ps.part_id = l.part_id AND p.part_id = l.part_id
    AND o.order_id = l.order_id AND s.nation_id = n.nation_id AND p.name LIKE '%green%') AS profit
GROUP BY nation, year ORDER BY nation, year DESC;

-- t10 customers who returned most: refused: would name people
SELECT c.customer_id, SUM(l.price * (1 - l.discount)) AS lost, c.balance
FROM customer c JOIN orders o ON c.customer_id = o.customer_id JOIN lineitem l ON l.order_id = o.order_id
WHERE o.day >= DATE '1993-10-01' AND o.day < DATE '1994-01-01' AND l.flag = 'R'
GROUP BY c.customer_id, c.balance ORDER BY lost DESC LIMIT 20;

-- t11 important stock in a nation: same
SELECT ps.part_id, SUM(ps.cost * ps.available) AS value
FROM partsupp ps JOIN supplier s ON ps.supplier_id = s.supplier_id JOIN nation n ON s.nation_id = n.nation_id
WHERE n.nation = 'GERMANY' GROUP BY ps.part_id
HAVING SUM(ps.cost * ps.available) > (SELECT SUM(cost * available) * 0.01 FROM partsupp)
ORDER BY value DESC, part_id;

-- t12 late items by shipping mode and priority: same
SELECT l.mode, SUM(CASE WHEN o.priority = '1-URGENT' OR o.priority = '2-HIGH' THEN 1 ELSE 0 END) AS high,
  SUM(CASE WHEN o.priority <> '1-URGENT' AND o.priority <> '2-HIGH' THEN 1 ELSE 0 END) AS low
FROM orders o JOIN lineitem l ON o.order_id = l.order_id
WHERE l.mode IN ('MAIL', 'SHIP') AND l.committed < l.received AND l.shipped < l.committed
  AND l.received >= DATE '1994-01-01' AND l.received < DATE '1995-01-01'
GROUP BY l.mode ORDER BY l.mode;

-- t13 how many customers have how many orders: answered
SELECT orders, COUNT(*) AS customers FROM (
  SELECT c.customer_id, COUNT(o.order_id) AS orders
  FROM customer c LEFT OUTER JOIN orders o ON c.customer_id = o.customer_id AND o.comment NOT LIKE '%special%requests%'
  GROUP BY c.customer_id) AS per_customer
GROUP BY orders ORDER BY customers DESC, orders DESC;

-- t14 the share of promoted parts: same
SELECT 100.00 * SUM(CASE WHEN p.kind LIKE 'PROMO%' THEN l.price * (1 - l.discount) ELSE 0 END)
  / SUM(l.price * (1 - l.discount)) AS share
FROM lineitem l, part p WHERE l.part_id = p.part_id AND l.shipped >= DATE '1995-09-01' AND l.shipped < DATE '1995-10-01';

-- t15 the supplier of the greatest revenue: same
WITH revenue AS (
  SELECT supplier_id, SUM(price * (1 - discount)) AS total FROM lineitem
  WHERE shipped >= DATE '1996-01-01' AND shipped < DATE '1997-01-01' GROUP BY supplier_id)
SELECT s.supplier_id, s.name, total FROM supplier s JOIN revenue r ON s.supplier_id = r.supplier_id
WHERE total = (SELECT MAX(total) FROM revenue) ORDER BY s.supplier_id;

-- t16 suppliers by brand, kind and size: same
SELECT p.brand, p.kind, p.size, COUNT(DISTINCT ps.supplier_id) AS suppliers
FROM partsupp ps JOIN part p ON p.part_id = ps.part_id
WHERE p.brand <> 'B4' AND p.kind NOT LIKE 'PROMO%' AND p.size IN (49, 14, 23, 45, 19, 3, 36, 9)
  AND ps.supplier_id NOT IN (SELECT supplier_id FROM supplier WHERE name LIKE '%complaints%')
GROUP BY p.brand, p.kind, p.size ORDER BY suppliers DESC, p.brand, p.kind, p.size;

-- t17 revenue of orders far below the usual quantity of the part: refused: released value
SELECT SUM(l.price) / 7.0 AS yearly FROM lineitem l JOIN part p ON p.part_id = l.part_id
WHERE p.brand = 'B3' AND p.container = 'MED BOX'
  AND l.quantity < (SELECT 0.2 * AVG(m.quantity) FROM lineitem m WHERE m.part_id = p.part_id);

-- t18 customers with large orders: refused: would name people
SELECT c.customer_id, o.order_id, o.day, o.total, SUM(l.quantity) AS quantity
FROM customer c JOIN orders o ON c.customer_id = o.customer_id JOIN lineitem l ON o.order_id = l.order_id
WHERE o.order_id IN (SELECT order_id FROM lineitem GROUP BY order_id HAVING SUM(quantity) > 150)
GROUP BY c.customer_id, o.order_id, o.day, o.total ORDER BY o.total DESC, o.day LIMIT 100;

-- t19 revenue of three kinds of parcels: same
SELECT SUM(l.price * (1 - l.discount)) AS revenue FROM lineitem l, part p
WHERE (p.part_id = l.part_id AND p.brand = 'B1' AND p.container IN ('SM BOX', 'SM BAG') AND l.quantity BETWEEN 1 AND 11
    AND p.size BETWEEN 1 AND 5 AND l.mode IN ('AIR', 'RAIL'))
  OR (p.part_id = l.part_id AND p.brand = 'B2' AND p.container IN ('MED BOX', 'MED BAG') AND l.quantity BETWEEN 10 AND 20
    AND p.size BETWEEN 1 AND 10 AND l.mode IN ('AIR', 'RAIL'))
  OR (p.part_id = l.part_id AND p.brand = 'B3' AND p.container IN ('LG BOX', 'LG BAG') AND l.quantity BETWEEN 20 AND 30
    AND p.size BETWEEN 1 AND 15 AND l.mode IN ('AIR', 'RAIL'));

-- t20 suppliers with more in stock than half of what was shipped: answered
WITH shipped AS (
  SELECT part_id, supplier_id, SUM(quantity) AS quantity FROM lineitem
  WHERE shipped >= DATE '1994-01-01' AND shipped < DATE '1995-01-01' GROUP BY part_id, supplier_id)
SELECT DISTINCT s.name FROM supplier s JOIN partsupp ps ON ps.supplier_id = s.supplier_id
  JOIN shipped q ON q.part_id = ps.part_id AND q.supplier_id = ps.supplier_id
WHERE ps.available > 0.5 * q.quantity AND ps.part_id IN (SELECT part_id FROM part WHERE name LIKE 'forest%') ORDER BY s.name;

-- t21 suppliers who alone kept an order waiting: same
SELECT s.name, COUNT(*) AS waiting FROM supplier s, lineitem l1, orders o, nation n
WHERE s.supplier_id = l1.supplier_id AND o.order_id = l1.order_id AND o.status = 'F' AND l1.received > l1.committed
  AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.order_id = l1.order_id AND l2.supplier_id <> l1.supplier_id)
  AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.order_id = l1.order_id AND l3.supplier_id <> l1.supplier_id
    AND l3.received > l3.committed)
  AND s.nation_id = n.nation_id AND n.nation = 'GERMANY'
GROUP BY s.name ORDER BY waiting DESC, s.name LIMIT 100;

-- t22 customers above the mean balance without orders: refused: released value inside WHERE
SELECT code, COUNT(*) AS n, SUM(balance) AS balance FROM (
  SELECT SUBSTRING(phone, 1, 2) AS code, balance FROM customer c
  WHERE SUBSTRING(phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
    AND balance > (SELECT AVG(balance) FROM customer WHERE balance > 0)
    AND NOT EXISTS (SELECT * FROM orders o WHERE o.customer_id = c.customer_id)) AS chosen
GROUP BY code ORDER BY code;

-- customers: same
SELECT COUNT(*) AS n FROM customer;

-- customers by segment: same
SELECT segment, COUNT(*) AS n FROM customer GROUP BY segment ORDER BY n DESC, segment;

-- customers with an order: same
SELECT COUNT(DISTINCT customer_id) AS n FROM orders;

-- customers with an order, of all: same
SELECT COUNT(DISTINCT o.customer_id) AS active, COUNT(DISTINCT c.customer_id) AS everybody
FROM customer c LEFT JOIN orders o ON o.customer_id = c.customer_id;

-- orders by month: same
SELECT DATE_TRUNC('month', day) AS month, COUNT(*) AS n FROM orders WHERE day < DATE '1993-01-01' GROUP BY 1 ORDER BY 1;

-- turnover by quarter and its change: answered
WITH q AS (SELECT DATE_TRUNC('quarter', day) AS quarter, SUM(total) AS turnover FROM orders GROUP BY 1)
SELECT quarter, turnover, turnover - LAG(turnover) OVER (ORDER BY quarter) AS change FROM q ORDER BY quarter;

-- turnover of each year so far: answered
SELECT year, month, SUM(turnover) OVER (PARTITION BY year ORDER BY month) AS so_far FROM (
  SELECT EXTRACT(year FROM day) AS year, EXTRACT(month FROM day) AS month, SUM(total) AS turnover FROM orders GROUP BY 1, 2)
ORDER BY year, month;

-- orders by day of the week: same
SELECT DAYNAME(day) AS weekday, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

-- the median order: answered
SELECT MEDIAN(total) AS usual, QUANTILE_CONT(total, [0.1, 0.9]) AS ends FROM orders;

-- the median order by segment: answered
SELECT segment, MEDIAN(total) AS usual FROM orders JOIN customer USING (customer_id) GROUP BY segment ORDER BY segment;

-- mean and deviation of orders: answered
SELECT segment, AVG(o.total) AS mean, STDDEV(o.total) AS deviation, MIN(o.total) AS least, MAX(o.total) AS most
FROM customer c JOIN orders o USING (customer_id) GROUP BY segment ORDER BY segment;

-- is a large order discounted more: same
SELECT CORR(quantity, discount) AS r, REGR_SLOPE(discount, quantity) AS slope FROM lineitem;

-- orders a customer: answered
SELECT AVG(n) AS mean, MAX(n) AS most FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id);

-- orders a customer, also of those without: same
SELECT AVG(n) AS mean FROM (
  SELECT c.customer_id, COUNT(o.order_id) AS n FROM customer c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id);

-- loyal customers: same
SELECT COUNT(*) AS loyal FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) > 3);

-- loyal customers by nation: same
SELECT nation, COUNT(*) AS loyal FROM customer JOIN nation USING (nation_id)
WHERE customer_id IN (SELECT customer_id FROM orders GROUP BY customer_id HAVING COUNT(*) > 3) GROUP BY nation ORDER BY nation;

-- customers without an order: same
SELECT segment, COUNT(*) AS n FROM customer c
WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.customer_id) GROUP BY segment ORDER BY segment;

-- customers who bought in one year and not in the next: same
SELECT COUNT(*) AS lost FROM customer
WHERE customer_id IN (SELECT customer_id FROM orders WHERE EXTRACT(year FROM day) = 1993)
  AND customer_id NOT IN (SELECT customer_id FROM orders WHERE EXTRACT(year FROM day) = 1994);

-- cohorts by month of the first order: same
SELECT DATE_TRUNC('month', first) AS cohort, COUNT(*) AS people
FROM (SELECT customer_id, MIN(day) AS first FROM orders GROUP BY customer_id) GROUP BY cohort ORDER BY cohort;

-- retention by year of the first order: same
WITH first AS (SELECT customer_id, MIN(EXTRACT(year FROM day)) AS cohort FROM orders GROUP BY customer_id)
SELECT cohort, EXTRACT(year FROM o.day) - cohort AS years, COUNT(DISTINCT o.customer_id) AS people
FROM first f JOIN orders o ON o.customer_id = f.customer_id GROUP BY 1, 2 ORDER BY 1, 2;

-- retention as shares of the cohort: same
WITH first AS (SELECT customer_id, MIN(EXTRACT(year FROM day)) AS cohort FROM orders GROUP BY customer_id),
active AS (SELECT cohort, EXTRACT(year FROM o.day) - cohort AS years, COUNT(DISTINCT o.customer_id) AS people
  FROM first JOIN orders o USING (customer_id) GROUP BY 1, 2)
SELECT cohort, years, people / MAX(CASE WHEN years = 0 THEN people END) OVER (PARTITION BY cohort) AS share
FROM active WHERE years >= 0 AND years < 3 AND cohort < 1994 ORDER BY 1, 2;

-- the first order of each customer: same
SELECT priority, AVG(total) AS mean FROM (
  SELECT customer_id, priority, total, ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY day, order_id) AS k FROM orders)
WHERE k = 1 GROUP BY priority ORDER BY priority;

-- the first order, with QUALIFY: same
SELECT status, COUNT(*) AS n FROM (
  SELECT customer_id, status FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY day, order_id) = 1)
GROUP BY status ORDER BY status;

-- days between orders: same
SELECT AVG(DATE_DIFF('day', before, day)) AS days FROM (
  SELECT customer_id, day, LAG(day) OVER (PARTITION BY customer_id ORDER BY day, order_id) AS before FROM orders)
WHERE before IS NOT NULL;

-- days since the last order: same
SELECT MEDIAN(DATE '1998-12-31' - last) AS days FROM (SELECT customer_id, MAX(day) AS last FROM orders GROUP BY customer_id);

-- each customer's share of returned items: same
SELECT AVG(returned / n) AS share FROM (
  SELECT o.customer_id, COUNT(*) FILTER (WHERE l.flag = 'R') AS returned, COUNT(*) AS n
  FROM lineitem l JOIN orders o USING (order_id) GROUP BY o.customer_id);

-- customers by spending class: same
SELECT CASE WHEN spent >= 200000 THEN 'high' WHEN spent >= 50000 THEN 'middle' ELSE 'low' END AS class, COUNT(*) AS n
FROM (SELECT customer_id, SUM(total) AS spent FROM orders GROUP BY customer_id) GROUP BY 1 ORDER BY 1;

-- items an order: same
SELECT AVG(n) AS mean FROM (SELECT order_id, COUNT(*) AS n FROM lineitem GROUP BY order_id);

-- orders of more than three items: same
SELECT COUNT(*) AS n FROM (SELECT order_id FROM lineitem GROUP BY order_id HAVING COUNT(*) > 3);

-- customers who bought two kinds of parts: same
SELECT COUNT(*) AS n FROM customer c
WHERE EXISTS (SELECT 1 FROM orders o JOIN lineitem l USING (order_id) JOIN part p USING (part_id)
    WHERE o.customer_id = c.customer_id AND p.kind = 'STEEL')
  AND EXISTS (SELECT 1 FROM orders o JOIN lineitem l USING (order_id) JOIN part p USING (part_id)
    WHERE o.customer_id = c.customer_id AND p.kind = 'COPPER');

-- pairs of orders of one customer on one day: same
SELECT COUNT(*) AS pairs FROM orders a JOIN orders b ON a.customer_id = b.customer_id AND a.day = b.day AND a.order_id < b.order_id;

-- different parts sold: same
SELECT COUNT(DISTINCT part_id) AS parts FROM lineitem;

-- different parts a customer: same
SELECT AVG(parts) AS parts FROM (
  SELECT o.customer_id, COUNT(DISTINCT l.part_id) AS parts FROM orders o JOIN lineitem l USING (order_id) GROUP BY o.customer_id);

-- the best selling parts: same
SELECT p.name, SUM(l.quantity) AS sold FROM lineitem l JOIN part p USING (part_id) GROUP BY p.name ORDER BY sold DESC, p.name LIMIT 5;

-- the usual way of shipping: same
SELECT MODE(mode) AS usual FROM lineitem;

-- a histogram of orders: answered
SELECT HISTOGRAM(total, [1000, 10000, 50000]) AS h FROM orders;

-- orders by size class: answered
SELECT WIDTH_BUCKET(total, 0, 100000, 10) AS bucket, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY 1;

-- totals by continent and segment: same
SELECT n.continent, c.segment, COUNT(*) AS n FROM customer c JOIN nation n USING (nation_id)
GROUP BY ROLLUP (n.continent, c.segment) ORDER BY 1 NULLS LAST, 2 NULLS LAST;

-- every combination of status and priority: same
SELECT status, priority, COUNT(*) AS n, GROUPING(status, priority) AS g FROM orders GROUP BY CUBE (status, priority) ORDER BY 4, 1, 2;

-- late items, as a share: same
SELECT mode, AVG(CASE WHEN received > committed THEN 1.0 ELSE 0.0 END) AS late FROM lineitem GROUP BY mode ORDER BY mode;

-- late items, with FILTER: same
SELECT COUNT(*) FILTER (WHERE received > committed) / COUNT(*) AS late FROM lineitem;

-- days from order to shipping: same
SELECT o.priority, AVG(l.shipped - o.day) AS days FROM orders o JOIN lineitem l USING (order_id) GROUP BY 1 ORDER BY 1;

-- segments above the mean: same
WITH s AS (SELECT segment, SUM(total) AS turnover FROM customer JOIN orders USING (customer_id) GROUP BY segment)
SELECT segment, turnover FROM s WHERE turnover > (SELECT AVG(turnover) FROM s) ORDER BY segment;

-- orders above the mean: refused: ask two questions
SELECT COUNT(*) AS n FROM orders WHERE total > (SELECT AVG(total) FROM orders);

-- orders above each customer's own mean: same
WITH means AS (SELECT customer_id, AVG(total) AS mean FROM orders GROUP BY customer_id)
SELECT COUNT(*) AS n FROM orders o JOIN means m ON m.customer_id = o.customer_id WHERE o.total > 2 * m.mean;

-- orders above each customer's own mean, correlated: refused: a value of each person
SELECT COUNT(*) AS n FROM orders o WHERE total > (SELECT 2 * AVG(p.total) FROM orders p WHERE p.customer_id = o.customer_id);

-- orders and returns in one list: same
SELECT what, COUNT(*) AS n FROM (
  SELECT customer_id, 'order' AS what FROM orders
  UNION ALL SELECT o.customer_id, 'return' FROM lineitem l JOIN orders o USING (order_id) WHERE l.flag = 'R')
GROUP BY what ORDER BY what;

-- names of customers: refused: private rows
SELECT customer_id, phone FROM customer WHERE balance > 9000;

-- the oldest order of somebody: refused: would name people
SELECT customer_id, MIN(day) AS first FROM orders GROUP BY customer_id ORDER BY first LIMIT 1;

-- customers of the same phone: refused: tie rows of one person
SELECT COUNT(*) AS n FROM customer a JOIN customer b ON a.phone = b.phone AND a.customer_id < b.customer_id;

-- running totals of single orders: refused: not one person's
SELECT AVG(running) AS mean FROM (SELECT SUM(total) OVER (ORDER BY day) AS running FROM orders);

-- customers by decade of balance and segment: same
SELECT segment, FLOOR(balance / 1000) AS thousands, COUNT(*) AS n FROM customer GROUP BY 1, 2;
