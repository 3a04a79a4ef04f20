import{a as p,c as m,la as o}from"./chunk-CNLJ7PCN.js";m(p(o,null),document.getElementById("app"));
