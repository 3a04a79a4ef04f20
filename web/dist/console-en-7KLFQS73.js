import{a as p,c as m,pa as o}from"./chunk-ZYMCVMNR.js";m(p(o,null),document.getElementById("app"));
