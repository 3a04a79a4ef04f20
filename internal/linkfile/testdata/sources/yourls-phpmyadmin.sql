-- phpMyAdmin SQL Dump
-- version 5.2.1
-- https://www.phpmyadmin.net/

SET SQL_MODE = "NO_AUTO_VALUE_ON_ZERO";
START TRANSACTION;

--
-- Dumping data for table `my_yourls_url`
--

INSERT INTO `my_yourls_url` (`keyword`, `url`, `title`, `timestamp`, `ip`, `clicks`) VALUES
('a1', 'https://www.example.com/1', 'First', '2019-03-31 01:59:59', '192.0.2.1', 10),
('a2', 'https://www.example.com/2', 'Zweite – ü', '2019-03-31 03:00:00', '192.0.2.1', 0);

COMMIT;
