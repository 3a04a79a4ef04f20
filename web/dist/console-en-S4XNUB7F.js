import{a as p,c as m,sa as o}from"./chunk-CI7LCRH6.js";m(p(o,null),document.getElementById("app"));
