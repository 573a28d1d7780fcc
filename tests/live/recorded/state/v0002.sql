-- State of a controller as of commit 1b0b3fe, written by that version's own code.
BEGIN TRANSACTION;
CREATE TABLE live_audit (
	number INTEGER NOT NULL, 
	time_us BIGINT NOT NULL, 
	who TEXT NOT NULL, 
	event VARCHAR(16) NOT NULL, 
	about INTEGER NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	target TEXT NOT NULL, 
	"before" TEXT NOT NULL, 
	"after" TEXT NOT NULL, 
	why TEXT NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "live_audit" VALUES(1,1700000000000000,'controller/easy/1234','note',0,'start','','','','mode control, policy easy, cap 70%','0000000000000000000000000000000000000000000000000000000000000000','618b33edb9a0c1e51bcb09486616a9c938ce1bdfc8851662a656163e91141fd4');
INSERT INTO "live_audit" VALUES(2,1700000001000000,'controller/easy/1234','intend',0,'update','12','watts=9','watts=5','measured 310 W','618b33edb9a0c1e51bcb09486616a9c938ce1bdfc8851662a656163e91141fd4','6459d95233b0b3df8392401203ea4bafc588002d54b117557ce0e9d70a97b9f3');
INSERT INTO "live_audit" VALUES(3,1700000002000000,'controller/easy/1234','settle',2,'','','','done','','6459d95233b0b3df8392401203ea4bafc588002d54b117557ce0e9d70a97b9f3','e46cbde6f25b3007a1b23c5eb938f8fb7129b509126aeab5425da47944008c21');
INSERT INTO "live_audit" VALUES(4,1700000003000000,'controller/easy/1234','intend',0,'update','13','held','released','start','e46cbde6f25b3007a1b23c5eb938f8fb7129b509126aeab5425da47944008c21','1f17abead4135ff755e14486c6fc915f806496a99b6bb7643c60340ee9752661');
INSERT INTO "live_audit" VALUES(5,1700000004000000,'controller/easy/1234','settle',4,'','','','done','','1f17abead4135ff755e14486c6fc915f806496a99b6bb7643c60340ee9752661','09713bbec93d9717f60a0b88d8462dec1eb9251a60a37ea5ebd22bb6bc34a402');
CREATE TABLE live_learned (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	user TEXT NOT NULL, 
	app TEXT NOT NULL, 
	partition TEXT NOT NULL, 
	nodes INTEGER NOT NULL, 
	walltime_s FLOAT NOT NULL, 
	start_s FLOAT NOT NULL, 
	end_s FLOAT NOT NULL, 
	mean_node_w FLOAT NOT NULL, 
	max_node_w FLOAT, 
	predicted_node_w FLOAT, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_learned" VALUES('7',1699990000.0,'eve','lulesh','p1',2,3600.0,1699990010.0,1699991010.0,250.5,280.0,NULL);
CREATE TABLE live_marks (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	marks TEXT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_marks" VALUES('10',1700000000.25,'reasserted,user-held');
INSERT INTO "live_marks" VALUES('11',1700000001.25,'reasserted');
CREATE TABLE live_origin (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	first_s FLOAT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_origin" VALUES('13',1700000003.25,1699999000.0);
CREATE TABLE live_placed (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	since_s FLOAT NOT NULL, 
	partition TEXT NOT NULL, 
	option INTEGER NOT NULL, 
	watts INTEGER NOT NULL, 
	predicted_w FLOAT NOT NULL, 
	limit_s FLOAT NOT NULL, 
	nodes TEXT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_placed" VALUES('10',1700000000.25,1700000100.0,'p1',2,300,420.5,600.0,'n[1-2]');
INSERT INTO "live_placed" VALUES('11',1700000001.25,1700000101.0,'p2',0,150,200.0,3600.0,'');
CREATE TABLE live_refused (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	until_s FLOAT NOT NULL, 
	times INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_refused" VALUES('12',1700000002.25,1700000500.0,2,'Licenses');
COMMIT;
