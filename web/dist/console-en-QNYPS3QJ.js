import{a as p,c as m,pa as o}from"./chunk-QBCA3J55.js";m(p(o,null),document.getElementById("app"));
