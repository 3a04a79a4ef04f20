-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
--
-- Host: localhost    Database: yourls
-- ------------------------------------------------------
/*!50503 SET NAMES utf8mb4 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;

DROP TABLE IF EXISTS `yourls_log`;
CREATE TABLE `yourls_log` (
  `click_id` int(11) NOT NULL AUTO_INCREMENT,
  `click_time` datetime NOT NULL,
  `shorturl` varchar(100) NOT NULL COMMENT 'it''s the keyword; see yourls_url',
  `referrer` varchar(200) NOT NULL,
  `user_agent` varchar(255) NOT NULL,
  `ip_address` varchar(41) NOT NULL,
  `country_code` char(2) NOT NULL,
  PRIMARY KEY (`click_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
LOCK TABLES `yourls_log` WRITE;
INSERT INTO `yourls_log` VALUES (1,'2020-01-02 03:04:05','spring','direct','Mozilla/5.0 (X11; Linux x86_64)','192.0.2.1','DE'),(2,'2020-01-02 03:04:06','spring','https://www.example.com/?q=\'); INSERT INTO `yourls_url` VALUES (','Mozilla/5.0','192.0.2.2','');
UNLOCK TABLES;

CREATE TABLE `yourls_url` (
  `keyword` varchar(100) NOT NULL DEFAULT '',
  `url` text NOT NULL,
  `title` text,
  `timestamp` timestamp NOT NULL DEFAULT current_timestamp(),
  `ip` varchar(41) NOT NULL,
  `clicks` int(10) unsigned NOT NULL,
  PRIMARY KEY (`keyword`)
) ENGINE=InnoDB;
INSERT INTO `yourls_url` VALUES ('spring','https://www.example.com/spring?a=1&b=(2),3','It\'s \"spring\"; yes','2020-01-02 03:04:05','192.0.2.1',2),('grosse','https://www.example.com/größe',NULL,'2020-06-02 03:04:05','2001:db8::1',0),('lines','https://www.example.com/lines','Two\r\nlines and a back\\slash','2020-06-02 03:04:05','192.0.2.9',1);
INSERT INTO `yourls_url` VALUES ('quote','https://www.example.com/quote','O''Hara','2020-06-03 00:00:00','192.0.2.9',1);
/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
-- Dump completed on 2024-01-01 10:00:00
