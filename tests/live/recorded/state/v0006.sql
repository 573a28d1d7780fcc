-- State of a controller as of commit beed01b, written by that version's own code.
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
INSERT INTO "live_audit" VALUES(3,1700000001000000,'controller/easy/1234','intend',0,'update','13','held','released','start','6459d95233b0b3df8392401203ea4bafc588002d54b117557ce0e9d70a97b9f3','e92b61bc60686509c2270ce567b1a3c1e483606536c852982447bc2171874d55');
INSERT INTO "live_audit" VALUES(4,1700000002000000,'controller/easy/1234','settle',2,'','','','done','','e92b61bc60686509c2270ce567b1a3c1e483606536c852982447bc2171874d55','850f82bbda5e5310fd7af2244469d452c9ec0626984de86a9a4bb9cac8b90324');
INSERT INTO "live_audit" VALUES(5,1700000002000000,'controller/easy/1234','settle',3,'','','','done','','850f82bbda5e5310fd7af2244469d452c9ec0626984de86a9a4bb9cac8b90324','ce88fc1dde90c299a63e26f0842d68994397a9bdbcafa014fac41ae1492cc9c1');
CREATE TABLE live_audit_begin (
	number INTEGER NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	seal VARCHAR(64) NOT NULL, 
	PRIMARY KEY (number)
);
CREATE TABLE live_drained (
	name TEXT NOT NULL, 
	until_s FLOAT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "live_drained" VALUES('n7',1700000300.0);
INSERT INTO "live_drained" VALUES('n8',1700000300.0);
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
CREATE TABLE live_lease (
	name VARCHAR(16) NOT NULL, 
	token TEXT NOT NULL, 
	renewed_s FLOAT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "live_lease" VALUES('controller','host-a/1/00001',1700000000.0);
CREATE TABLE live_ledger (
	name VARCHAR(16) NOT NULL, 
	state TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "live_ledger" VALUES('adaptive','{"z": 2.5, "spent_s": 12.0}');
CREATE TABLE live_marks (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	marks TEXT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_marks" VALUES('11',1700000001.25,'reasserted');
INSERT INTO "live_marks" VALUES('10',1700000000.25,'reasserted,user-held');
CREATE TABLE live_origin (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	first_s FLOAT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_origin" VALUES('13',1700000003.25,1699999000.0);
CREATE TABLE live_parked (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	since_s FLOAT NOT NULL, 
	watts INTEGER NOT NULL, 
	limit_s FLOAT NOT NULL, 
	why TEXT NOT NULL, 
	until_s FLOAT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_parked" VALUES('10',1700000000.25,1700000200.0,300,600.0,'target 400 kW',1700003800.0);
INSERT INTO "live_parked" VALUES('13',1700000003.25,1700000210.0,300,600.0,'target 400 kW',1700003810.0);
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
INSERT INTO "live_placed" VALUES('11',1700000001.25,1700000101.0,'p2',0,150,200.0,3600.0,'');
INSERT INTO "live_placed" VALUES('10',1700000000.25,1700000100.0,'p1',2,300,420.5,600.0,'n[1-2]');
CREATE TABLE live_ran (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	user TEXT NOT NULL, 
	app TEXT NOT NULL, 
	partition TEXT NOT NULL, 
	nodes INTEGER NOT NULL, 
	walltime_s FLOAT NOT NULL, 
	end_s FLOAT NOT NULL, 
	run_s FLOAT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_ran" VALUES('7',1699990000.0,'eve','lulesh','p1',2,3600.0,1699991010.0,1000.0);
CREATE TABLE live_refused (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	until_s FLOAT NOT NULL, 
	times INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_refused" VALUES('12',1700000002.25,1700000500.0,2,'Licenses');
CREATE TABLE live_running (
	name TEXT NOT NULL, 
	submit_s FLOAT NOT NULL, 
	user TEXT NOT NULL, 
	app TEXT NOT NULL, 
	partition TEXT NOT NULL, 
	nodes INTEGER NOT NULL, 
	walltime_s FLOAT NOT NULL, 
	predicted_node_w FLOAT, 
	hardware TEXT NOT NULL, 
	frequency_hz FLOAT, 
	PRIMARY KEY (name, submit_s)
);
INSERT INTO "live_running" VALUES('10',1700000000.25,'eve','','p1',1,600.0,210.0,'p1',NULL);
COMMIT;
