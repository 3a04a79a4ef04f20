import{a as p,c as m,pa as o}from"./chunk-XOHEYWDB.js";m(p(o,null),document.getElementById("app"));
