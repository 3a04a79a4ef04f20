import{a as p,c as m,na as o}from"./chunk-LKFQB6SX.js";m(p(o,null),document.getElementById("app"));
